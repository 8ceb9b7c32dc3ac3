export { addAdminService } from "./admin-service.js";
export { runRestore } from "./run-restore.js";
