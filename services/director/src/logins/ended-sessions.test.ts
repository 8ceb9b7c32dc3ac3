import { ResourceExhaustedError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { openStorage, Tablet } from "@diskmesh/tablet";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { type DirectorTablet, storedSchema } from "../store/stored-schema.js";
import { endSession } from "./ended-sessions.js";

describe("ended sessions", () => {
  let tablet: DirectorTablet;

  before(async () => {
    const storage = openStorage(temporaryFolder(), "director");
    tablet = await Tablet.open({ name: "director", schema: storedSchema, storage, address: "" });
  });
  after(() => tablet?.close());

  const end = (user: string, sessionId: string, endsAtMs: number, nowMs: number) =>
    tablet.transact((tx) => endSession(tx, user, { sessionId, endsAtMs }, nowMs));

  it("are kept until the session would have ended by itself", async () => {
    await end("ann", "a", 1_000, 0);
    await end("bob", "b", 2_000, 999);
    await end("bob", "c", 2_000, 1_000);
    const ids = await tablet.read(({ endedSessions }) => [...endedSessions.entries()].map((each) => each.sessionId));
    expect(ids).to.deep.equal(["b", "c"]);
  });

  it("are limited for each user", async () => {
    await tablet.transact((tx) => {
      for (let count = 0; count < 1_000; count++)
        endSession(tx, "ann", { sessionId: `many-${count}`, endsAtMs: 5_000 }, 3_000);
    });
    await rejection(end("ann", "more", 5_000, 3_000), ResourceExhaustedError, "change the password");
    await end("bob", "of-bob", 5_000, 3_000);
    await end("ann", "more", 9_000, 5_000);
  });
});
