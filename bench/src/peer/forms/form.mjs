// A simple form handler in Node: http and node:sqlite, one INSERT for each request.
// Arguments: the port and the database.
import { createServer } from "node:http";
import { DatabaseSync } from "node:sqlite";

const [port, file] = process.argv.slice(2);
const database = new DatabaseSync(file);
database.exec("PRAGMA journal_mode = WAL");
database.exec("PRAGMA synchronous = FULL");
database.exec("CREATE TABLE IF NOT EXISTS contact (id INTEGER PRIMARY KEY, name TEXT, email TEXT, message TEXT)");
const insert = database.prepare("INSERT INTO contact (name, email, message) VALUES (?, ?, ?)");

function answer(response, status, value) {
  const body = JSON.stringify(value);
  response.writeHead(status, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) });
  response.end(body);
}

createServer((request, response) => {
  const pieces = [];
  request.on("data", (piece) => pieces.push(piece));
  request.on("end", () => {
    try {
      const { name, email, message } = JSON.parse(Buffer.concat(pieces).toString());
      if (!name || !/^[^@\s]+@[^@\s]+$/.test(email) || !message) {
        return answer(response, 400, { error: "name, email and message are required" });
      }
      insert.run(name, email, message);
      answer(response, 200, { ok: true });
    } catch {
      answer(response, 400, { error: "the body must be JSON" });
    }
  });
}).listen(Number(port), "127.0.0.1");
