import type { BlockIoRequest, BlockIoResponse } from "@diskmesh/api/internal";
import type { CallContext } from "@diskmesh/rpc";
import { serveBlockIo } from "../block-io/serve-stream.js";
import type { AgentContext } from "../context.js";

export function blockIo(
  {
    limits: { maxInFlightPerStream, blockIoChunkBytes, orderTimeoutMs },
    devices,
    ledger,
    clock,
    machineBootId,
  }: AgentContext,
  requests: AsyncIterable<BlockIoRequest>,
  call: CallContext,
): AsyncIterable<BlockIoResponse> {
  const limits = {
    maxInFlightPerStream,
    maxReadBytes: blockIoChunkBytes,
    takeOverTimeoutMs: orderTimeoutMs,
  };
  return serveBlockIo(requests, call, { devices, ledger, clock, limits, machineBootId });
}
