from .fit import MDSParams as MDSParams, embed_new as embed_new, fit as fit
