import type { CopyDeviceRequest, CopyDeviceResponse } from "@diskmesh/api/internal";
import { NotImplementedError } from "@diskmesh/domain";
import type { AgentContext } from "../context.js";

export async function copyDevice(_context: AgentContext, _request: CopyDeviceRequest): Promise<CopyDeviceResponse> {
  throw new NotImplementedError("this agent does not copy devices yet");
}
