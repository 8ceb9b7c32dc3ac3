import { randomBytes } from "node:crypto";
import type { CreateMethodLinkRequest, CreateMethodLinkResponse } from "@diskmesh/api/director";
import { InvalidArgumentError, InvalidStateError } from "@diskmesh/domain";
import { type CallContext, msOfDuration } from "@diskmesh/rpc";
import { askerOf, userOf } from "../audit/asker.js";
import { formatMethod } from "../audit/director-event.js";
import type { DirectorTransaction } from "../store/schema.js";
import type { VendorContext } from "./context.js";
import { parseTarget } from "./handlers.js";
import { MAX_LINK_LENGTH, type MethodLink, signedLink } from "./method-link.js";

export const METHOD_LINK_PATH = "/vendor_method";
const KEY_BYTES = 32;
const MAX_LIFETIME_MS = 7 * 24 * 3_600_000;

/** Makes an address for GETs of a synchronous method. The call is checked now as it will be made. */
export async function createMethodLink(
  { passthru, tablet, clock, config, events }: VendorContext,
  request: CreateMethodLinkRequest,
  call: CallContext,
): Promise<CreateMethodLinkResponse> {
  const { driver, args = {} } = request;
  const lifetimeMs = msOfDuration(request.lifetime);
  if (config.http === undefined)
    throw new InvalidStateError("the director has no HTTPS API to answer at: set `http` of its config");
  if (!(lifetimeMs >= 1 && lifetimeMs <= MAX_LIFETIME_MS))
    throw new InvalidArgumentError("lifetime must be from 1 ms to 604,800 s, which is 7 days");
  const target = parseTarget(request.target);
  const named = driver === "" ? request.method : `${driver}.${request.method}`;
  const method = await passthru.checkLink(call, { target, method: named, args });
  const link: MethodLink = {
    ...{ target, args, method: `${method.driver}.${method.name}` },
    ...{ endsAtMs: clock.nowMs() + lifetimeMs, madeBy: userOf(call) },
  };
  const signed = signedLink(link, await tablet.transact(keyOf));
  if (signed.length > MAX_LINK_LENGTH)
    throw new InvalidArgumentError(`the arguments make an address of more than ${MAX_LINK_LENGTH} characters`);
  const nodeId = target.kind === "node" ? target.nodeId : "";
  const objectName = formatMethod({ nodeId, driver: method.driver, method: method.name });
  const context = { ends_at: new Date(link.endsAtMs).toISOString() };
  await events.record(
    { action: "create", objectType: "vendor_method_link", objectName },
    { ...askerOf(call), context },
  );
  return {
    path: `${METHOD_LINK_PATH}?link=${signed}`,
    httpsPort: config.http.listen.port,
    expireTime: new Date(link.endsAtMs),
  };
}

function keyOf({ linkKeys }: DirectorTransaction): string {
  const known = linkKeys.get("vendor-methods");
  if (known !== undefined) return known.key;
  const key = randomBytes(KEY_BYTES).toString("base64url");
  linkKeys.put({ name: "vendor-methods", key });
  return key;
}
