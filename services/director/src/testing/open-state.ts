import { type EventLog, openEventLog, openStorage, Tablet } from "@diskmesh/tablet";
import { temporaryFolder } from "@diskmesh/testkit";
import { type DirectorTablet, storedSchema } from "../store/stored-schema.js";

/** Opens an empty tablet and event log in a folder that is removed after the test. */
export async function openState(): Promise<{ readonly tablet: DirectorTablet; readonly eventLog: EventLog }> {
  const folder = temporaryFolder();
  const storage = openStorage(folder, "director");
  const tablet = await Tablet.open({ name: "director", schema: storedSchema, storage, address: "" });
  return { tablet, eventLog: openEventLog(folder, "director") };
}
