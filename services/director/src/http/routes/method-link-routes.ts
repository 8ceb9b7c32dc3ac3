import { InvalidStateError, PermissionDeniedError } from "@diskmesh/domain";
import { MAX_METHOD_TIMEOUT_MS } from "@diskmesh/driver/host";
import { readLink } from "../../vendor-methods/method-link.js";
import { METHOD_LINK_PATH } from "../../vendor-methods/method-links.js";
import type { VendorMethod } from "../../vendor-methods/vendor-method.js";
import { type Answer, methodAnswer, text } from "../answer.js";
import type { HttpCall, Route } from "../route.js";

/**
 * A GET of a vendor's method for whoever has its signed address, such as a machine that boots. The signed text is in the
 * query, which no log has.
 */
export const methodLinkRoutes: readonly Route[] = (["HEAD", "GET"] as const).map((method) => ({
  method,
  path: METHOD_LINK_PATH,
  operation: undefined,
  isOpen: true,
  isLinkable: true,
  changes: true,
  maxAnswerMs: MAX_METHOD_TIMEOUT_MS,
  serve: (http) => called(http).catch(refused),
}));

async function called(http: HttpCall): Promise<Answer> {
  const { context, query, request } = http;
  const { tablet, passthru, clock } = context;
  const key = await tablet.read(({ linkKeys }) => linkKeys.get("vendor-methods")?.key);
  const { target, method, args, madeBy } = readLink(query.get("link") ?? "", key, clock.nowMs());
  const call = http.callAs({ name: `link of ${madeBy}`, scopes: [], by: "link" });
  const wanted = { target, method, httpMethod: request.method, args, wait: true, requestId: "" };
  const outcome = await passthru.call(call, { ...wanted, authorise: (chosen) => refuseAsync(chosen, http) });
  if (outcome.async) throw new TypeError("a link has started a task");
  return methodAnswer(outcome.value, outcome.method);
}

/** Answers 403: with 401, as in BOSH's API, a browser would ask for a login. */
function refused(error: unknown): Answer {
  if (error instanceof PermissionDeniedError) return text(`${error.message}\n`, 403);
  throw error;
}

/** Refuses a method that was synchronous when the address was made. */
function refuseAsync({ name, async, timeoutMs }: VendorMethod, { extend }: HttpCall): void {
  if (async) throw new InvalidStateError(`the method ${name} has become asynchronous: its address calls it no more`);
  extend(timeoutMs);
}
