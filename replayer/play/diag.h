/* Messages for people, on stderr. stdout is left to data. */
#ifndef TRACEKIT_PLAY_DIAG_H
#define TRACEKIT_PLAY_DIAG_H

/* Prints one line "tracekit-replay: MESSAGE" to stderr, with \xNN for each byte of a character that
 * would command a terminal, hide, reorder or break the line. Any thread, never between the first
 * submit and the last reap on the submitting thread. */
void diag(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
