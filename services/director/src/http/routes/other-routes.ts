import { NotImplementedError } from "@diskmesh/domain";
import { encodeLock } from "../../locks/wire.js";
import { json, jsonList } from "../answer.js";
import { partsOf } from "../pages.js";
import type { Route } from "../route.js";

/** Lists that are always empty in this director. */
const EMPTY = [
  "/networks",
  "/director/certificate_expiry",
  "/deployments/:deployment/variables",
  "/deployments/:deployment/errands",
  "/deployments/:deployment/certificate_expiry",
];

/** BOSH routes that are refused, with the reason. */
const REFUSED: readonly (readonly [method: Route["method"], path: string, what: string])[] = [
  ["POST", "/releases", "releases, because its VMs run no jobs: deploy without releases"],
  ["POST", "/releases/export", "releases"],
  ["DELETE", "/releases/:name", "releases"],
  ["POST", "/packages/matches", "packages"],
  ["POST", "/deployments/:deployment/errands/:name/runs", "errands, because its VMs run no jobs"],
  ["POST", "/deployments/:deployment/ssh", "ssh: connect to the VM as its IaaS provides"],
];

export const otherRoutes: readonly Route[] = [
  {
    method: "GET",
    path: "/locks",
    operation: "listLocks",
    serve: async ({ context }) => {
      const locks = context.locks.list().map(encodeLock);
      return jsonList(
        partsOf(locks, ({ type, resource, expireTime, taskId }) => ({
          type: type.replace("LOCK_TYPE_", "").toLowerCase(),
          resource: [resource],
          timeout: ((expireTime?.getTime() ?? 0) / 1_000).toFixed(6),
          task_id: String(taskId),
        })),
      );
    },
  },
  { method: "GET", path: "/releases", operation: "listDeployments", teams: "own", serve: async () => json([]) },
  ...EMPTY.map((path): Route => ({ method: "GET", path, operation: "listDeployments", serve: async () => json([]) })),
  ...REFUSED.map(
    ([method, path, what]): Route => ({
      method,
      path,
      operation: "deploy",
      serve: () => Promise.reject(new NotImplementedError(`this director has no ${what}`)),
    }),
  ),
];
