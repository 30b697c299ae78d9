/* Removes what is in a directory, by descriptors: no link leads out of it, no mount is entered. */
#ifndef TRACEKIT_FILES_REMOVE_H
#define TRACEKIT_FILES_REMOVE_H

/* Removes everything below the open directory, which stays. Returns 0 or the first -errno. */
int remove_below(int directory_fd);

#endif
