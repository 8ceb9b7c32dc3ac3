import { logVerbosity, setLogVerbosity } from "@grpc/grpc-js";

// grpc-js writes plain lines to standard error, among the JSON of the log, for errors that it also returns. Its own
// variable turns them on again for looking into grpc-js.
if (process.env.GRPC_VERBOSITY === undefined) setLogVerbosity(logVerbosity.NONE);
