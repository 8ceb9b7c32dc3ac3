import { DomainError, PermissionDeniedError, UnauthenticatedError } from "@diskmesh/domain";
import { type Answer, json } from "./answer.js";
import { statusOf } from "./http-error.js";

/** Under these paths clients of Ironic are answered, in its words. */
export const PASSTHRU_PREFIX = "/v1";
const VERSION_HEADER = "x-openstack-ironic-api-version";
/** The Ironic API version that the routes follow, and the first and last versions that are accepted. */
export const API_VERSIONS = { min: "1.1", max: "1.115" } as const;

/** Every answer carries what version of the API it is of. */
export function versioned(answer: Answer): Answer {
  const { min, max } = API_VERSIONS;
  const versions = { [VERSION_HEADER]: max, "x-openstack-ironic-api-minimum-version": min };
  return { ...answer, headers: { ...versions, "x-openstack-ironic-api-maximum-version": max, ...answer.headers } };
}

/**
 * Returns the answer for an Ironic client to anything that was thrown; for a bug only the request id, by which the log
 * has the error.
 */
export function passthruError(thrown: unknown, requestId: string): Answer {
  if (!(thrown instanceof DomainError))
    return fault(500, `internal error; the director's log has it under request id ${requestId}`);
  if (thrown instanceof UnauthenticatedError)
    return fault(401, "Not authorized", { "www-authenticate": 'Basic realm="BOSH Director"' });
  if (thrown instanceof PermissionDeniedError) return fault(403, `Access was denied: ${thrown.message}`);
  const status = statusOf(thrown);
  // Clients of Ironic send again by themselves what is answered with 503.
  if (thrown.retryable && thrown.outcome === "unknown")
    return fault(status === 503 ? 500 : status, `${thrown.message}; what the method has done is not known`);
  const retryAfterS = Math.max(1, Math.ceil((thrown.retryAfterMs ?? 1_000) / 1_000));
  return fault(status, thrown.message, thrown.retryable ? { "retry-after": String(retryAfterS) } : {});
}

/** JSON within JSON, as Ironic has it. */
function fault(status: number, text: string, headers: Readonly<Record<string, string>> = {}): Answer {
  const inner = JSON.stringify({ faultcode: status < 500 ? "Client" : "Server", faultstring: text, debuginfo: null });
  const { body, headers: type } = json({ error_message: inner });
  return versioned({ status, headers: { ...type, ...headers }, body: body ?? "" });
}

/** Returns the answer of Ironic's guards, which comes without the error envelope. */
export function guarded(status: number, text: string): Answer {
  return versioned(json({ faultcode: "Client", faultstring: text }, status));
}
