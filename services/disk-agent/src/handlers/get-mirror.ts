import type { GetMirrorRequest, GetMirrorResponse } from "@diskmesh/api/internal";
import { parseDeviceId, parseDiskId } from "@diskmesh/domain";
import { acceptFrom } from "../calls/accept-request.js";
import type { AgentContext } from "../calls/context.js";
import { encodeMirror, parseLeaderStamp, parseOffset, parseSessionNumber } from "../calls/wire.js";

export async function getMirror(context: AgentContext, request: GetMirrorRequest): Promise<GetMirrorResponse> {
  const stamp = parseLeaderStamp(request.stamp);
  const source = { deviceId: parseDeviceId(request.deviceId), offsetBytes: parseOffset(request.offsetBytes) };
  const target = {
    deviceId: parseDeviceId(request.targetDeviceId, "target_device_id"),
    offsetBytes: parseOffset(request.targetOffsetBytes),
  };
  const sessionNumber = parseSessionNumber(request.sessionNumber);
  const export_ = { diskId: parseDiskId(request.diskId), sessionNumber, revision: request.revision };
  acceptFrom(context, { bootId: request.bootId, stamps: [stamp] });
  const status = context.exports.askMirror(export_, { source, target }, request.bytesPerSecond);
  return encodeMirror(status, { source, target });
}
