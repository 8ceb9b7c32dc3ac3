import { diskRoutes } from "./disk-routes.js";
import type { Route } from "./route.js";
import { taskRoutes } from "./task-routes.js";

/** Everything that needs a login. */
export const allRoutes: readonly Route[] = [...taskRoutes, ...diskRoutes];
