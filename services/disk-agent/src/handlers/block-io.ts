import type { DiskAgentServiceService } from "@diskmesh/api/agent";
import type { Handlers } from "@diskmesh/rpc";
import { type BlockIoServing, serveBlockIo } from "../block-io/serve-stream.js";

export function blockIo(serving: BlockIoServing): Handlers<typeof DiskAgentServiceService>["blockIo"] {
  return (requests, call) => serveBlockIo(requests, call, serving);
}
