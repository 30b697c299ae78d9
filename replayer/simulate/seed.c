typedef int tk_seed_simulate;
