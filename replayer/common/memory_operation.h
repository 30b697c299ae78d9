/* What an access to memory does, as its trace says and caches take it. */
#ifndef TRACEKIT_COMMON_MEMORY_OPERATION_H
#define TRACEKIT_COMMON_MEMORY_OPERATION_H

enum tk_memory_operation {
  MEMORY_LOAD,
  MEMORY_STORE,
  MEMORY_MODIFY, /* a load and a store of one instruction at one place */
  MEMORY_FETCH,  /* of an instruction */
  MEMORY_OPERATION_END,
};

#endif
