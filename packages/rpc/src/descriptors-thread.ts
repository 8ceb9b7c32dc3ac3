import { parentPort, workerData } from "node:worker_threads";
import { load } from "@grpc/proto-loader";
import { completeDescriptors } from "./descriptors.js";

/** What the thread is given. */
export interface DescriptorsWork {
  readonly files: readonly string[];
  readonly includeDirs: readonly string[];
}

const { files, includeDirs } = workerData as DescriptorsWork;
const loaded = await load([...files], { includeDirs: [...includeDirs], keepCase: true });
parentPort?.postMessage(completeDescriptors(loaded));
