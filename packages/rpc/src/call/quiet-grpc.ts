import { logVerbosity, setLogVerbosity } from "@grpc/grpc-js";

// grpc-js writes plain lines to standard error, between the JSON lines of the log, for errors that it also returns. The
// environment variable GRPC_VERBOSITY turns these plain lines on again for debugging grpc-js.
if (process.env.GRPC_VERBOSITY === undefined) setLogVerbosity(logVerbosity.NONE);
