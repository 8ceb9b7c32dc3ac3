import type { Route } from "../route.js";
import { cleanUpRoutes } from "./clean-up-routes.js";
import { configRoutes } from "./config-routes.js";
import { deploymentRoutes } from "./deployment-routes.js";
import { diskRoutes } from "./disk-routes.js";
import { eventRoutes } from "./event-routes.js";
import { instanceRoutes } from "./instance-routes.js";
import { lifecycleRoutes } from "./lifecycle-routes.js";
import { logRoutes } from "./log-routes.js";
import { methodLinkRoutes } from "./method-link-routes.js";
import { otherRoutes } from "./other-routes.js";
import { pageRoutes } from "./page-routes.js";
import { pageSessionRoutes } from "./page-session-routes.js";
import { passthruRoutes } from "./passthru-routes.js";
import { stemcellRoutes } from "./stemcell-routes.js";
import { taskRoutes } from "./task-routes.js";
import { upkeepRoutes } from "./upkeep-routes.js";

/** All routes of the HTTPS API, except those that HttpServer adds itself, such as /healthz. */
export const allRoutes: readonly Route[] = [
  ...taskRoutes,
  ...diskRoutes,
  ...configRoutes,
  ...deploymentRoutes,
  ...instanceRoutes,
  ...stemcellRoutes,
  ...lifecycleRoutes,
  ...logRoutes,
  ...upkeepRoutes,
  ...cleanUpRoutes,
  ...eventRoutes,
  ...passthruRoutes,
  ...methodLinkRoutes,
  ...pageRoutes,
  ...pageSessionRoutes,
  ...otherRoutes,
];
