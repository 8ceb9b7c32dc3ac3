import { isAbsolute, join } from "node:path";
import { parentPort, workerData } from "node:worker_threads";
import { load } from "@grpc/proto-loader";
import protobuf from "protobufjs";
import { commentsOf } from "./descriptor-comments.js";
import { completeDescriptors } from "./descriptors.js";

/** Input of the thread. */
export interface DescriptorsWork {
  readonly files: readonly string[];
  readonly includeDir: string;
}

const { files, includeDir } = workerData as DescriptorsWork;
const loaded = await load([...files], { includeDirs: [includeDir], keepCase: true });
parentPort?.postMessage(completeDescriptors(loaded, readComments()));

/** Parses the files a second time with protobufjs, because proto-loader drops comments. */
function readComments(): ReadonlyMap<string, string> {
  const root = new protobuf.Root();
  root.resolvePath = (_origin, target) => (isAbsolute(target) ? target : join(includeDir, target));
  return commentsOf(root.loadSync([...files], { keepCase: true, alternateCommentMode: true }));
}
