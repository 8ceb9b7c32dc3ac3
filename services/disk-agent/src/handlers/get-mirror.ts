import type { GetMirrorRequest, GetMirrorResponse } from "@diskmesh/api/internal";
import { NotImplementedError } from "@diskmesh/domain";
import type { AgentContext } from "../context.js";

export async function getMirror(_context: AgentContext, _request: GetMirrorRequest): Promise<GetMirrorResponse> {
  throw new NotImplementedError("this agent does not mirror disks yet");
}
