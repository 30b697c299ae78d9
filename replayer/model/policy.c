#include "model/policy.h"

static const struct cache_policy *const policies[POLICY_COUNT] = {
    [POLICY_LRU] = &policy_lru,     [POLICY_FIFO] = &policy_fifo,
    [POLICY_CLOCK] = &policy_clock, [POLICY_S3_FIFO] = &policy_s3_fifo,
    [POLICY_ARC] = &policy_arc,     [POLICY_OPTIMUM] = &policy_optimum,
};

const struct cache_policy *policy_of(uint32_t name) { return policies[name]; }
