//! What visitors send and who they are stands in no log, no figure and no file but the inbox.
