// This is the only file that compiles Asio's own functions: train_net defines
// BOOST_ASIO_SEPARATE_COMPILATION for every target that uses it.
#include <boost/asio/impl/src.hpp>
