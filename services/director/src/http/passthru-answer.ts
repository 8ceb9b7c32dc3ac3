import type { IncomingHttpHeaders } from "node:http";
import {
  DomainError,
  InvalidArgumentError,
  PermissionDeniedError,
  UnauthenticatedError,
  visible,
} from "@diskmesh/domain";
import { type Answer, json } from "./answer.js";
import { statusOf } from "./http-error.js";

export const PASSTHRU_PREFIX = "/v1";
const VERSION_HEADER = "x-openstack-ironic-api-version";
/** The Ironic API version that the routes implement, and the range of accepted versions. */
export const API_VERSIONS = { min: "1.1", max: "1.115" } as const;

/** Mapped to HTTP status 406. */
class NotAcceptableError extends InvalidArgumentError {}

const [FIRST_MINOR, LAST_MINOR] = [API_VERSIONS.min, API_VERSIONS.max].map((version) => Number(version.split(".")[1]));

/** Throws NotAcceptableError for an unsupported API version. A missing version is accepted. */
export function refuseOtherVersions({ [VERSION_HEADER]: given = "latest" }: IncomingHttpHeaders): void {
  const minor = Number(/^1\.(\d{1,6})$/.exec(String(given))?.[1] ?? Number.NaN);
  if (given === "latest" || (minor >= (FIRST_MINOR ?? 0) && minor <= (LAST_MINOR ?? 0))) return;
  const { min, max } = API_VERSIONS;
  throw new NotAcceptableError(
    `${VERSION_HEADER} names a version that is not supported: give one from ${min} to ${max}, or latest`,
  );
}

/** Throws NotAcceptableError unless the client accepts an answer of a type that the route has. */
export function refuseOtherAnswers({ accept = "" }: IncomingHttpHeaders, types: readonly string[]): void {
  const accepted = ["*/*", ...types, ...types.map((type) => type.replace(/\/.*/, "/*"))];
  const isTaken = (range: string): boolean => {
    const [type = "", ...parameters] = range.toLowerCase().replace(/\s/g, "").split(";");
    return accepted.includes(type) && !parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter));
  };
  if (accept.trim() === "" || accept.split(",").some(isTaken)) return;
  throw new NotAcceptableError(`answers are ${types.join(" or ")}, which the Accept header excludes`);
}

/** Adds the API version headers to a response. */
export function versioned(answer: Answer): Answer {
  const { min, max } = API_VERSIONS;
  const versions = { [VERSION_HEADER]: max, "x-openstack-ironic-api-minimum-version": min };
  return { ...answer, headers: { ...versions, "x-openstack-ironic-api-maximum-version": max, ...answer.headers } };
}

/** The stock client, python-ironicclient 6.3, fails with a TypeError on an error with a Retry-After header. */
const CANNOT_READ_RETRY_AFTER = /^python-ironicclient/;

/**
 * Returns the Ironic response for a thrown error. A bug yields only the request id, under which the log has the error.
 */
export function passthruError(thrown: unknown, requestId: string, userAgent = ""): Answer {
  if (!(thrown instanceof DomainError))
    return fault(500, `internal error; the director's log has it under request id ${requestId}`);
  if (thrown instanceof UnauthenticatedError)
    return fault(401, "Not authorized", { "www-authenticate": 'Basic realm="BOSH Director"' });
  if (thrown instanceof PermissionDeniedError) return fault(403, `Access was denied: ${thrown.message}`);
  const status = thrown instanceof NotAcceptableError ? 406 : statusOf(thrown);
  // Ironic clients retry 503 automatically, so an unknown outcome must not be reported as 503.
  if (thrown.retryable && thrown.outcome === "unknown")
    return fault(status === 503 ? 500 : status, `${thrown.message}; what the method has done is not known`);
  const retryAfterS = Math.max(1, Math.ceil((thrown.retryAfterMs ?? 1_000) / 1_000));
  const isTold = thrown.retryable && !CANNOT_READ_RETRY_AFTER.test(userAgent);
  return fault(status, thrown.message, isTold ? { "retry-after": String(retryAfterS) } : {});
}

/** Objects that Ironic's clients read here, and cannot change. */
const READ_ONLY = /^\/v1\/((nodes|drivers)(\/|$)|ports$)/;

/**
 * Returns the answer to a request that no route serves. A change of what is there is answered with 405, because clients
 * take 404 of a deletion for success. Ironic's other objects, such as chassis, do not exist here.
 */
export function unservedPassthru(method: string, path: string): Answer {
  if (method === "GET" || method === "HEAD" || !READ_ONLY.test(path))
    return fault(404, `Endpoint '${path}' not found.`);
  return fault(405, "nodes are hosts of diskmesh, which clients of Ironic cannot change");
}

/** Ironic nests JSON text within JSON. Clients display the text verbatim, so control characters are made visible. */
function fault(status: number, text: string, headers: Readonly<Record<string, string>> = {}): Answer {
  const inner = JSON.stringify({
    faultcode: status < 500 ? "Client" : "Server",
    faultstring: visible(text),
    debuginfo: null,
  });
  const { body, headers: type } = json({ error_message: inner });
  return versioned({ status, headers: { ...type, ...headers }, body: body ?? "" });
}

/**
 * Returns an error in the format of Ironic's checks of a request's size and nesting, which lacks the `error_message`
 * envelope of other Ironic errors.
 */
export function guarded(status: number, text: string): Answer {
  return versioned(json({ faultcode: "Client", faultstring: text }, status));
}
