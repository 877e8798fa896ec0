"""What every fit runs on: the EM loop, L-BFGS on the host and traced, and a fit's outcome."""
