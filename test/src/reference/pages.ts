import { cliPage } from "./cli.js";
import { errorsPage } from "./errors.js";
import { grpcPages } from "./grpc.js";
import { permissionsPage } from "./permissions.js";

/**
 * Returns the pages of docs/reference that `npm run reference` generates, by file name. The pages on configuration and
 * metrics have their own commands.
 */
export async function referencePages(): Promise<ReadonlyMap<string, string>> {
  return new Map([
    ["cli.md", await cliPage()],
    ["errors.md", errorsPage()],
    ["permissions.md", permissionsPage()],
    ...grpcPages(),
  ]);
}
