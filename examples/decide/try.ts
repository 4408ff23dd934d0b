// Tries the client on a gate whose ingress "jobs" has two permits and the token
// "secret".
import { Gate, Refused } from "./admitd";

function must(holds: boolean, what: string): void {
  if (!holds) throw new Error(what);
}

async function main(url: string): Promise<void> {
  const gate = new Gate(url, "secret");
  const refused = async (cost?: number): Promise<Refused | undefined> => {
    try {
      await gate.permit({ ingress: "jobs", partition: "ts", cost }, async () => undefined);
      return undefined;
    } catch (e) {
      if (e instanceof Refused) return e;
      throw e;
    }
  };
  await gate.permit({ ingress: "jobs", partition: "ts" }, () =>
    gate.permit({ ingress: "jobs", partition: "ts" }, async () => {
      const third = await refused();
      must(third?.document.reason === "concurrency_limit" && (third.retryAfterMS ?? 0) > 0, "a third is refused");
    }),
  );
  must((await refused()) === undefined, "permits came back");
  must((await refused(5000))?.retryAfterMS === undefined, "what can never pass says so");
  await gate.permit({ ingress: "jobs", partition: "ts" }, () => Promise.reject(new Error("the work failed"))).catch(() => undefined);
  await gate.end("nobody's");
  const failed = await new Gate(url).admit({ ingress: "jobs" }).then(() => false, (e) => !(e instanceof Refused));
  must(failed, "without the token nothing is admitted");
  console.log("ok");
}

main(process.argv[2]).catch((e) => {
  console.error(e);
  process.exit(1);
});
