import { once } from "node:events";
import { chmod } from "node:fs/promises";
import { createServer, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { isJsonObject, type Logger, messageOf } from "@diskmesh/domain";
import type { CsiDriverReport, CsiDrivers } from "@diskmesh/service";
import { removeFile } from "../base/remove-file.js";
import { shortSocketPath } from "../nbd/socket-path.js";

const MAX_CONNECTIONS = 16;
/** Bytes of one connection, which is for one report. */
const MAX_BYTES = 65_536;
const TIMEOUT_MS = 10_000;

/**
 * Takes the reports of this host's csi-drivers, which have no credentials for a service: each connection of root, or of
 * the agent's user, sends one line of JSON. The agent works without the socket.
 */
export async function listenForCsiDrivers(
  path: string,
  drivers: Pick<CsiDrivers, "note">,
  log: Logger,
): Promise<AsyncDisposable> {
  const noted = (line: string): void => {
    try {
      drivers.note(parseReport(line));
    } catch (error) {
      log.debug({ error: messageOf(error) }, "csi-driver report refused");
    }
  };
  const server = createServer((socket) => readReport(socket, noted));
  server.maxConnections = MAX_CONNECTIONS;
  const shortName = await shortSocketPath(path);
  try {
    // A killed agent left its socket. The base folder has one agent at a time.
    await removeFile(path);
    await once(server.listen(shortName.path), "listening");
    await chmod(path, 0o600);
  } catch (error) {
    log.warn({ path, error: messageOf(error) }, "socket for csi-drivers not made: one that hangs is not noticed");
  }
  server.on("error", (error) => log.debug({ error: messageOf(error) }, "connection of a csi-driver not accepted"));
  return {
    [Symbol.asyncDispose]: async () => {
      server.close();
      await shortName[Symbol.asyncDispose]();
    },
  };
}

function readReport(socket: Socket, onLine: (line: string) => void): void {
  socket.on("error", () => socket.destroy());
  socket.setTimeout(TIMEOUT_MS, () => socket.destroy());
  socket.on("data", () => socket.bytesRead > MAX_BYTES && socket.destroy());
  createInterface({ input: socket }).once("line", (line) => {
    onLine(line);
    socket.destroy();
  });
}

function parseReport(line: string): CsiDriverReport {
  const found: unknown = JSON.parse(line);
  const { driver, startId, stops, warnings } = isJsonObject(found) ? found : {};
  const texts = Array.isArray(warnings) ? warnings.filter((each): each is string => typeof each === "string") : [];
  return { driver: String(driver ?? ""), startId: String(startId ?? ""), stops: stops === true, warnings: texts };
}
