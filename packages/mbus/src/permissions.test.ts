import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "chai";
import { connect, headers } from "nats";
import type { Message, NatsConnection } from "./connection.js";
import { MbusScene, until } from "./testing/mbus-scene.js";

describe("an agent's permissions on mbus", () => {
  const scene = MbusScene.forAllTests();
  let intruder: NatsConnection;

  before(async () => {
    intruder = await scene.server.connect("disk-agent-host-2");
    await until(() => intruder.isConnected);
  });

  it("do not let it read another agent's requests", async () => {
    const heard: string[] = [];
    const subscriptions = ["agent.host-1", "agent.>", "director.>"].map((each) =>
      intruder.subscribe(each, ({ subject }) => heard.push(subject)),
    );
    await scene.client.call("host-1", "echo", [1]);
    await sleep(100);
    expect(heard).to.deep.equal([]);
    for (const subscription of subscriptions) subscription.unsubscribe();
  });

  it("say which subscription the server refuses, until it is given up", async () => {
    const whys: (string | undefined)[] = [];
    const forget = intruder.onChange((why) => whys.push(why));
    const subscription = intruder.subscribe("agent.host-1", () => {});
    await until(() => /refuses the subscription to "agent\.host-1": permit it/.test(whys.at(-1) ?? ""));
    expect(intruder.isConnected).to.equal(true);
    subscription.unsubscribe();
    expect(whys.at(-1)).to.equal(undefined);
    forget();
  });

  it("do not let it send requests, replies or heartbeats for another agent", async () => {
    const heard: string[] = [];
    const hear = ({ subject, data }: Message) => {
      if (Buffer.from(data).toString() === "forged") heard.push(subject);
    };
    const watches = ["hm.agent.heartbeat.*", "director.process-9.>"].map((subject) =>
      scene.director.subscribe(subject, hear),
    );
    // A reply proves that the director's subscriptions are in place.
    await scene.client.call("host-1", "ping", []);
    for (const subject of ["agent.host-1", "hm.agent.heartbeat.host-1", "director.process-9.host-1.r1"])
      intruder.publish(subject, Buffer.from("forged"));
    intruder.publish("director.process-9.host-2.r1", Buffer.from("forged"));
    await until(() => heard.length > 0);
    for (const watch of watches) watch.unsubscribe();
    expect(heard).to.deep.equal(["director.process-9.host-2.r1"]);
  });

  it("do not let it use a header to make the server send a heartbeat for another agent", async () => {
    const heard: string[] = [];
    const hear = ({ subject, data }: Message) => heard.push(`${subject} ${Buffer.from(data)}`);
    const watch = scene.director.subscribe("hm.agent.heartbeat.*", hear);
    await scene.client.call("host-1", "ping", []);
    const tls = { ...scene.server.certs.files("disk-agent-host-2"), checkServerIdentity: () => undefined };
    const link = await connect({ servers: [scene.server.nats.address], tls, reconnect: false });
    const traced = headers();
    traced.set("Nats-Trace-Dest", "hm.agent.heartbeat.host-3");
    link.publish("hm.agent.heartbeat.host-2", Buffer.from("{}"), { headers: traced });
    // A trace of the first message, if the server sends one, arrives before the second message.
    link.publish("hm.agent.heartbeat.host-2", Buffer.from("last"));
    await until(() => heard.includes("hm.agent.heartbeat.host-2 last"));
    await link.close();
    watch.unsubscribe();
    expect(heard.filter((line) => line.includes("host-3"))).to.deep.equal([]);
  });

  it("let it reply only as itself, which answers no request to another agent", async () => {
    let replyTo = "";
    const spy = scene.agent.subscribe("agent.host-1", ({ data }) => {
      replyTo = JSON.parse(Buffer.from(data).toString()).reply_to;
    });
    // A reply over the same connection proves that the spy's subscription is in place.
    await scene.client.call("host-1", "ping", []);
    replyTo = "";
    const hanging = scene.client.call("host-1", "hang", []);
    await until(() => replyTo !== "");
    spy.unsubscribe();
    intruder.publish(replyTo.replace("host-1", "host-2"), Buffer.from('{"value":"forged"}'));
    await sleep(100);
    scene.release();
    expect(await hanging).to.equal(null);
  });

  it("make an agent drop requests whose reply would go elsewhere", async () => {
    const heard: string[] = [];
    const everything = scene.director.subscribe("director.>", ({ subject }) => heard.push(subject));
    const ask = (reply_to: unknown) =>
      scene.director.publish("agent.host-1", Buffer.from(JSON.stringify({ method: "ping", arguments: [], reply_to })));
    for (const replyTo of ["agent.host-1", "director.p.host-2.r", "director.p.host-1.>", "hm.agent.alert.host-1", 5])
      ask(replyTo);
    scene.director.publish("agent.host-1", Buffer.from("not json"));
    ask("director.p.host-1.last");
    await until(() => heard.length > 0);
    everything.unsubscribe();
    expect(heard).to.deep.equal(["director.p.host-1.last"]);
  });
});
