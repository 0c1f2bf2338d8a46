"""The checks, by what they ask for; each is a function of a `Broker` that raises if it is not satisfied."""
