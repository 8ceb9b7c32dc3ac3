import { type Logger, messageOf, UnavailableError } from "@diskmesh/domain";
import { type Contents, WatchedFiles } from "@diskmesh/tls";
import { newClient } from "./client.js";
import { connectToMongo } from "./driver-server.js";
import { checkTlsFiles, readTlsFiles, type TlsOption, tlsPathsOf } from "./tls-files.js";

/**
 * Calls `onChanged` once, with the reason why the process must restart: the URL's TLS files have changed, the database
 * accepts a connection with them, and existing connections keep using the former ones. Files that are damaged, or that
 * the database refuses, are logged as an error and checked again each second.
 */
export async function watchTlsFiles(
  url: string,
  log: Logger,
  onChanged: (reason: Error) => void,
): Promise<{ close(): void }> {
  const { options } = newClient(url);
  const inUse = await readTlsFiles(options);
  const files = tlsPathsOf(options);
  const watched = new WatchedFiles<TlsOption>({
    files,
    inUse: () => inUse,
    onChanged: async (found) => {
      try {
        const changed = changedOptions(inUse, checkTlsFiles(found, options));
        const server = await connectToMongo(url);
        await server.close();
        watched.close();
        onChanged(mustEnd(changed.map((option) => `${option} ${files[option]}`)));
      } catch (error) {
        watched.logProblem(log, `the TLS files that the address of MongoDB names have changed: ${messageOf(error)}`);
      }
    },
  });
  return watched;
}

function changedOptions(before: Contents<TlsOption>, after: Contents<TlsOption>): TlsOption[] {
  return (Object.keys(after) as TlsOption[]).filter((option) => !after[option].equals(before[option]));
}

function mustEnd(changed: readonly string[]): UnavailableError {
  return new UnavailableError(
    `TLS files of the address of MongoDB have changed: ${changed.join(", ")}; this process gives up the lead and ends, and its next start uses the new files: if nothing starts it again, start it`,
  );
}
