"""Personalities: how file servers, mail servers and the like use files, made into file plans."""
