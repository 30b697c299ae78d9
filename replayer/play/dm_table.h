/* Tables of device-mapper devices: which sectors of a device below two of them use. */
#ifndef TRACEKIT_PLAY_DM_TABLE_H
#define TRACEKIT_PLAY_DM_TABLE_H

#include <stdbool.h>
#include <sys/types.h>

/* Returns whether two device-mapper devices certainly have no sector of the device `below` in
 * common. Tables that are not understood, or may not be read, are not certain. */
bool dm_table_are_apart(dev_t one, dev_t other, dev_t below);

#endif
