import { cliPage } from "./cli.js";
import { errorsPage } from "./errors.js";
import { grpcPages } from "./grpc.js";
import { permissionsPage } from "./permissions.js";

/**
 * Returns the pages of docs/reference that are made from the code, by file names; configuration and metrics have
 * commands of their own.
 */
export async function referencePages(): Promise<ReadonlyMap<string, string>> {
  return new Map([
    ["cli.md", await cliPage()],
    ["errors.md", errorsPage()],
    ["permissions.md", permissionsPage()],
    ...grpcPages(),
  ]);
}
