import { logVerbosity, setLogVerbosity } from "@grpc/grpc-js";

// grpc-js writes plain lines to standard error, between the JSON lines of the log, for errors that it also returns. Its
// GRPC_VERBOSITY variable turns them on again for debugging grpc-js.
if (process.env.GRPC_VERBOSITY === undefined) setLogVerbosity(logVerbosity.NONE);
