"""The checks of DCA-GM: gradients and Fisher matrices, EM, sampling."""
