import type { IncomingHttpHeaders } from "node:http";
import { PermissionDeniedError } from "@diskmesh/domain";

/** Mapped to HTTP status 403. */
export class CrossSiteError extends PermissionDeniedError {}

/**
 * Returns whether a browser sent the request for a page of another site. Such a request may carry the browser's stored
 * login. Browsers set both headers themselves, out of reach of scripts; other programs send neither.
 */
export function isCrossSite(headers: IncomingHttpHeaders, scheme = "https"): boolean {
  const { host = "", origin, "sec-fetch-site": site } = headers;
  if (site !== undefined && site !== "same-origin" && site !== "none") return true;
  return origin !== undefined && origin.toLowerCase() !== `${scheme}://${host.toLowerCase()}`;
}

/** Throws CrossSiteError for cross-site requests. */
export function refuseCrossSite(headers: IncomingHttpHeaders): void {
  if (!isCrossSite(headers)) return;
  throw new CrossSiteError(
    "a browser sent this request for a page of another site, which is not allowed; a proxy in between must keep the Host header",
  );
}
