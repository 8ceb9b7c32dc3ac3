import { parentPort, workerData } from "node:worker_threads";
import { load } from "@grpc/proto-loader";
import protobuf from "protobufjs";
import { commentsOf } from "./descriptor-comments.js";
import { completeDescriptors } from "./descriptors.js";

export interface DescriptorsWork {
  /** Absolute paths of the .proto files. */
  readonly files: readonly string[];
  /** Folders that imports are relative to. */
  readonly includeDirs: readonly string[];
}

const { files, includeDirs } = workerData as DescriptorsWork;
const loaded = await load([...files], { includeDirs: [...includeDirs], keepCase: true });
parentPort?.postMessage(completeDescriptors(loaded, readComments()));

/** Parses the files a second time with protobufjs, because proto-loader drops comments. */
function readComments(): ReadonlyMap<string, string> {
  const root = new protobuf.Root();
  root.resolvePath = (_origin, target) => files.find((file) => file.endsWith(`/${target}`)) ?? target;
  return commentsOf(root.loadSync([...files], { keepCase: true, alternateCommentMode: true }));
}
