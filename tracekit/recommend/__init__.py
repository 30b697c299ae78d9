"""Say where a small NVM should go: device profiles, the answer at each capacity, its wording."""
