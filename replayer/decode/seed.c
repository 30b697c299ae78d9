typedef int tk_seed_decode;
