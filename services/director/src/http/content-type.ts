import type { IncomingHttpHeaders } from "node:http";
import { InvalidArgumentError } from "@diskmesh/domain";

export const JSON_TYPES: readonly string[] = ["application/json"];
export const YAML_TYPES: readonly string[] = ["text/yaml", "application/yaml"];
/** A stemcell archive, or JSON with its location. */
export const STEMCELL_TYPES: readonly string[] = ["application/x-compressed", ...JSON_TYPES];

/** Mapped to HTTP status 415. */
export class ContentTypeError extends InvalidArgumentError {}

/** Throws ContentTypeError for a body of a type other than `accepted`. Requests without a body are accepted. */
export function refuseOtherTypes(headers: IncomingHttpHeaders, accepted: readonly string[]): void {
  const { "content-length": length = "0", "content-type": given = "", "transfer-encoding": coding } = headers;
  if (coding === undefined && Number(length) === 0) return;
  const type = given.split(";", 1)[0]?.trim().toLowerCase() ?? "";
  if (accepted.includes(type)) return;
  throw new ContentTypeError(`the body's Content-Type must be ${accepted.join(" or ")}`);
}
