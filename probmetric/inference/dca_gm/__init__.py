"""DCA-GM: where to find each step."""
