export const REQUEST_ID_HEADER = "x-request-id";

// It goes into log lines, so a caller's own is taken only when it can be nothing but a name.
export const REQUEST_ID_PATTERN = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/;
