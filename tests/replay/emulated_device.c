/* Serves what stdin says on an emulated device, and writes when each request is done. */
#include "play/emulated_device.h"

#include <inttypes.h>
#include <stdio.h>

#include "play/engine.h"

int main(int argc, char **argv) {
  struct device_spec spec;
  const char *fault;
  if (argc != 2 || device_spec_parse(argv[1], &spec, &fault) != 0)
    return 1;
  struct device *device = device_new(&spec);
  struct request request = {0};
  uint64_t now_ns;
  while (device != NULL &&
         scanf("%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu8 " %" SCNu8, &now_ns,
               &request.request_id, &request.offset_bytes, &request.length_bytes,
               &request.operation, &request.flags) == 6)
    printf("%" PRIu64 "\n", device_serve(device, &request, now_ns));
  device_free(device);
  return 0;
}
