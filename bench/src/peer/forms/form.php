<?php
// A simple form handler in PHP: PDO and SQLite, one INSERT for each request, with a persistent connection.
header("Content-Type: application/json");

function answer(int $status, array $value): never
{
    $body = json_encode($value);
    http_response_code($status);
    header("Content-Length: " . strlen($body));
    exit($body);
}

$sent = json_decode(file_get_contents("php://input"), true);
$email = $sent["email"] ?? "";
if (empty($sent["name"]) || empty($sent["message"]) || !filter_var($email, FILTER_VALIDATE_EMAIL)) {
    answer(400, ["error" => "name, email and message are required"]);
}
$database = new PDO("sqlite:" . getenv("DATABASE"), null, null, [PDO::ATTR_PERSISTENT => true]);
$database->exec("PRAGMA synchronous = FULL");
$database->exec("PRAGMA busy_timeout = 10000");
$insert = $database->prepare("INSERT INTO contact (name, email, message) VALUES (?, ?, ?)");
$insert->execute([$sent["name"], $email, $sent["message"]]);
answer(200, ["ok" => true]);
