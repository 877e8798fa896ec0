from .fit import embed_new as embed_new, fit as fit
