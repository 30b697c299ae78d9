"""Work profiles: what they say, the requests that they become, and what these become."""
