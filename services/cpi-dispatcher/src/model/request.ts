import type { JsonObject } from "@diskmesh/domain";
import type { CpiMethod } from "./methods.js";

export interface RequestOrigin {
  readonly directorId: string;
  readonly requestId: string;
  readonly stemcellApiVersion: number;
}

/**
 * Returns the context of a request: the caller and the CPI's properties. Properties override all other keys, as with
 * stock directors.
 */
export function requestContext(origin: RequestOrigin, properties: JsonObject): JsonObject {
  const { directorId, requestId, stemcellApiVersion } = origin;
  const vm = { stemcell: { api_version: stemcellApiVersion } };
  return { director_uuid: directorId, request_id: requestId, vm, ...properties };
}

/**
 * Returns the request as JSON. Omits api_version when `apiVersion` is undefined, as in an info call, which negotiates
 * the version.
 */
export function requestText(
  method: CpiMethod,
  args: readonly unknown[],
  context: JsonObject,
  apiVersion: number | undefined,
): string {
  const version = apiVersion === undefined ? {} : { api_version: apiVersion };
  return JSON.stringify({ method, arguments: args, ...version, context });
}
