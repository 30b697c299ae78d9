#include "play/perf_gate.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "play/diag.h"

#define ACK_MS 1000

void perf_gate_switch(const struct perf_gate *gate, bool counts) {
  const char *command = counts ? "enable\n" : "disable\n";
  char ack[16];
  struct pollfd answer = {.fd = gate->ack_fd, .events = POLLIN};
  if (gate->control_fd < 0)
    return;
  if (write(gate->control_fd, command, strlen(command)) < 0 || poll(&answer, 1, ACK_MS) != 1 ||
      read(gate->ack_fd, ack, sizeof ack) <= 0)
    diag("perf does not answer: its counts may cover more or less than the measured time");
}
