import {
  AbortedError,
  AlreadyExistsError,
  CancelledError,
  DomainError,
  InvalidArgumentError,
  InvalidStateError,
  NotFoundError,
  NotImplementedError,
  OutdatedError,
  PermissionDeniedError,
  ResourceExhaustedError,
  TimeoutError,
  UnauthenticatedError,
  visible,
} from "@diskmesh/domain";
import { CrossSiteError } from "../logins/cross-site.js";
import { isOfPage } from "../logins/page-sessions.js";
import { CODES, coded, codeOf } from "../tasks/bosh-codes.js";
import { type Answer, json, text } from "./answer.js";
import { ContentTypeError } from "./content-type.js";

/** An invalid request with a BOSH error code. */
export class BadRequestError extends InvalidArgumentError {
  constructor(message: string, code: number = CODES.invalidValue, field?: string) {
    super(message, field === undefined ? {} : { about: { field } });
    coded(code, this);
  }
}

const STATUSES: readonly (readonly [abstract new (...args: never[]) => DomainError, number])[] = [
  [ContentTypeError, 415],
  [CrossSiteError, 403],
  [InvalidArgumentError, 400],
  [NotFoundError, 404],
  [AlreadyExistsError, 409],
  [InvalidStateError, 400],
  [OutdatedError, 409],
  // BOSH answers 401, so that clients may retry with other credentials.
  [PermissionDeniedError, 401],
  [UnauthenticatedError, 401],
  [AbortedError, 409],
  [TimeoutError, 504],
  [CancelledError, 499],
  [NotImplementedError, 501],
];

/** BOSH's codes for missing objects, by the error's subject. The message is always the error's own. */
const MISSING: readonly (readonly [about: string, code: number])[] = [
  ["task_id", CODES.taskNotFound],
  ["stemcell", CODES.stemcellNotFound],
  ["deployment", CODES.deploymentNotFound],
  ["instance_id", CODES.instanceNotFound],
  ["type", CODES.configNotFound],
];

/** Returns the response for a thrown error. A bug yields only the request id, under which the log has the error. */
export function answerTo(thrown: unknown, path: string, requestId: string): Answer {
  if (thrown instanceof UnauthenticatedError) {
    // Page requests are not challenged, because the page has a login form. A challenged browser stores the password and
    // would send it with cross-site requests.
    const challenge: Record<string, string> = isOfPage(path)
      ? {}
      : { "www-authenticate": 'Basic realm="BOSH Director"' };
    return text(`Not authorized: '${path}'\n`, 401, challenge);
  }
  if (!(thrown instanceof DomainError)) {
    const description = `internal error; the director's log has it under request id ${requestId}`;
    return json({ code: CODES.any, description }, 500);
  }
  const { latest_id, expected_latest_id, field } = thrown.about;
  if (thrown instanceof AbortedError && latest_id !== undefined)
    return json({ latest_id, expected_latest_id, description: thrown.message }, 412);
  const status = statusOf(thrown);
  // Clients display the description verbatim, so control characters are made visible.
  const description = visible(thrown.message);
  // The page shows the message beside its input.
  const about = field !== undefined && isOfPage(path) ? { field } : {};
  const answer = json({ code: boshCodeOf(thrown), description, ...about }, status);
  if (!thrown.retryable || status < 429) return answer;
  const seconds = String(Math.max(1, Math.ceil((thrown.retryAfterMs ?? 1_000) / 1_000)));
  return { ...answer, headers: { ...answer.headers, "retry-after": seconds } };
}

export function statusOf(error: DomainError): number {
  if (error instanceof ResourceExhaustedError) return 429;
  return STATUSES.find(([type]) => error instanceof type)?.[1] ?? (error.retryable ? 503 : 500);
}

function boshCodeOf(error: DomainError): number {
  const given = codeOf(error);
  if (given !== undefined) return given;
  if (error instanceof NotFoundError) {
    const [, code] = MISSING.find(([about]) => error.about[about] !== undefined) ?? [];
    if (code !== undefined) return code;
  }
  if (error instanceof PermissionDeniedError) return CODES.unauthorized;
  return error instanceof InvalidArgumentError ? CODES.invalidValue : CODES.any;
}

/**
 * Returns the response for fastify's own errors. Their messages contain neither header values nor parts of the body.
 */
export function frameworkAnswer(error: { readonly statusCode?: number; readonly message: string }): Answer | undefined {
  const status = error.statusCode ?? 500;
  return status >= 400 && status < 500
    ? json({ code: CODES.invalidValue, description: error.message }, status)
    : undefined;
}
